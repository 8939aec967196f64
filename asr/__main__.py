from asr.cli import main

main()
