// Command fields prints which row of which decision table shows that each published
// field counts, from what the tables noted in a folder (make fields runs them).
package main

import (
	"flag"
	"fmt"
	"os"

	"switchyard.dev/tests/fields"
)

func main() {
	brief := flag.Bool("brief", false, "print only the fields that no row shows")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: fields FOLDER, the folder with the notes of the rows")
		os.Exit(2)
	}
	if err := fields.Report(os.Stdout, flag.Arg(0), *brief); err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
}
