"""``python -m secor``: the program ``secor`` of this interpreter's environment."""

from secor.cli.entry import main

if __name__ == "__main__":
    main()
