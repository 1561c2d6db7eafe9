// Command image packs the operator's programs, Envoy and the demo application into image archives
// (in the format of `docker save`), without Docker and without a base image.
//
//	go run -C tools/image . --out /FOLDER [--only name,...] [--tests] [--tag dev]
//	go run -C tools/image . --out /FOLDER --listed /FILE     images for tests, from files of this machine
//
// Programs are static Go binaries; the sidecar's image contains Envoy and the few files of the C
// library it needs, from this machine. Two runs on the same sources produce the same digests.
// Unchanged images are not packed again: binaries and the digest of each archive's content are
// cached in ${SWITCHYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/switchyard}/images.
//
// With Docker, use the Dockerfile in the directory of each image, from the root of the repository:
// docker build -f tools/image/eventbus/Dockerfile .
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"switchyard.dev/tools/image/build"
)

func main() {
	out := flag.String("out", "", "folder for the archives, one NAME.tar each; from this module's folder, so give a whole path (required)")
	only := flag.String("only", "", "names of images, separated by commas; default: all but those of tests")
	tests := flag.Bool("tests", false, "pack those of tests too")
	tag := flag.String("tag", "dev", "tag of the images")
	registry := flag.String("registry", "switchyard.dev", "registry in the images' names")
	listed := flag.String("listed", "", "file with a JSON list of images to pack in place of ours (build.Listed)")
	flag.Parse()
	config := build.Config{Out: *out, Tag: *tag, Registry: *registry, Tests: *tests, Progress: os.Stderr}
	if *only != "" {
		config.Only = strings.Split(*only, ",")
	}
	if err := run(config, *listed); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(config build.Config, listed string) (err error) {
	if listed != "" {
		if config.Listed, err = build.ReadListed(listed); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return build.Run(ctx, config)
}
