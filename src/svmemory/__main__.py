"""``python -m svmemory`` is the same as the ``svmemory`` command."""

from .cli import main

if __name__ == "__main__":
    main()
