// Command samples-path prints where the file system of the samples' images is, a small Debian;
// it is fetched and unpacked first when that was not done yet.
package main

import (
	"context"
	"fmt"
	"os"

	"switchyard.dev/tools/samples"
)

func main() {
	folder, err := samples.System(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "samples-path:", err)
		os.Exit(1)
	}
	fmt.Println(folder)
}
