// SPDX-License-Identifier: Apache-2.0

// Release builds the programs for publication, from a clone of the repository.
//
//	go run ./test/release -sbom bin/cyclonedx-gomod -out bin/release
//
// For each architecture it writes an archive of static programs. It also writes an SBOM in the
// format of CycloneDX, and SHA256SUMS. Each file depends on the commit and the version of Go
// only. To show this, Release builds everything again in another clone, with an empty build
// cache, and compares all bytes. "make release" runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	out := flag.String("out", "bin/release", "`directory` of the files, which is emptied")
	sbom := flag.String("sbom", "bin/cyclonedx-gomod", "`file` of cyclonedx-gomod")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := release(ctx, ".", *out, *sbom)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// release builds the commit of the clone root twice, and writes the files to the directory out.
func release(ctx context.Context, root, out, sbom string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	first := build{dir: root, out: out, sbom: sbom}
	if err := first.all(ctx); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	second := build{dir: scratch + "/clone", out: scratch + "/out", cache: scratch + "/cache", sbom: sbom}
	if err := command(ctx, root, nil, "git", "clone", "--quiet", "--no-hardlinks", ".", second.dir); err != nil {
		return err
	}
	if err := second.all(ctx); err != nil {
		return fmt.Errorf("second build: %w", err)
	}
	if err := compare(out, second.out); err != nil {
		return err
	}
	return writeSums(out)
}
