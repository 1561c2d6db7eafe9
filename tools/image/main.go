// Command image packs our programs, Envoy and the demo application into image
// archives (as `docker save` writes them), without Docker and without a base
// image.
//
//	go run -C tools/image . --out /FOLDER [--only name,...] [--tests] [--tag dev]
//	go run -C tools/image . --out /FOLDER --listed /FILE     files of this machine, of which a test makes images
//
// Programs are static Go binaries; the sidecar's image holds Envoy and the few
// files of the C library it needs, taken from this machine. Two runs on the same
// sources give the same digests. What has not changed is not packed again:
// binaries and the mark of each archive's content stay in
// ${SWITCHYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/switchyard}/images.
//
// Who has Docker uses the Dockerfile in the folder of each image, from the root
// of the repository: docker build -f tools/image/eventbus/Dockerfile .
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
