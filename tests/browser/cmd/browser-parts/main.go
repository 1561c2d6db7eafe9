// Command browser-parts installs Chromium from Debian, if it is missing, and fetches what tests with it need.
package main

import (
	"context"
	"fmt"
	"os"

	"switchyard.dev/tests/browser"
)

func main() {
	if err := browser.Prepare(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "browser-parts:", err)
		os.Exit(1)
	}
}
