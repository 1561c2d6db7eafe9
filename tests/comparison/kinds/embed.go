// Package kinds contains the kinds of noise and of faults of the corpus, as files (README.md).
package kinds

import "embed"

// Files has the folders noise and faults.
//
//go:embed noise/*.yaml faults/*.yaml
var Files embed.FS
