"""``python -m radixcheck`` is ``radixcheck``."""

from radixcheck.cli import main

if __name__ == "__main__":
    main()
