"""The trainable gate in PyTorch; needs the extra ``svmemory[torch]``."""

from .cache import HybridCache, ModelCache
from .exact import StreamingGate
from .gate import Gate, sv_attention, sv_gate, sv_gate_prefixes, sv_readout, sv_score
from .layers import HybridSVAttention, SVAttention

__all__ = [
    "Gate",
    "HybridCache",
    "HybridSVAttention",
    "ModelCache",
    "SVAttention",
    "StreamingGate",
    "sv_attention",
    "sv_gate",
    "sv_gate_prefixes",
    "sv_readout",
    "sv_score",
]
