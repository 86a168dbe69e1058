// Command mortarmq is the broker and its command line; package cli has it all.
package main

import (
	"os"

	"github.com/mortarmq/mortarmq/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
