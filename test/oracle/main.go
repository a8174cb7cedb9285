// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

// Oracle runs the providers of rdma-core, as Debian ships them, on a fake verbs device. It records how they use the
// memory that they share with the kernel and the device. The tests of this module's providers replay these records,
// which are called vectors.
//
//	go run ./test/oracle                             makes the committed files again
//	go run ./test/oracle -seed 7 -n 500 -out FILE    makes fresh vectors
//
// It downloads the packages of the releases in its table with the machine's own apt, and compiles the C sources of
// test/oracle/c with the machine's gcc for them. It installs nothing, and keeps all files in the user's cache
// directory. README.md has the format of the vectors.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/abi/source"
	"purerdma/test/oracle/vector"
)

// The parameters of the committed files. The file of mlx5 with the newest release has committedN random lists, and the
// other files have committedNOther.
const (
	committedSeed   = 1
	committedN      = 2000
	committedNOther = 200
)

func main() {
	driver := flag.String("driver", "", "only the vectors of this driver: "+drivers())
	release := flag.String("release", "", "only the vectors of this Debian release's rdma-core")
	seed := flag.Uint64("seed", committedSeed, "seed of the random lists")
	n := flag.Int("n", 0, "number of random lists, or 0 for the number in the committed files")
	out := flag.String("out", "", "write vectors of one driver (default mlx5) and release (default the newest) to this file instead of the committed ones, compressed if the name ends in .gz")
	dir := flag.String("prepare", "", "only build the fake kernel, fill this directory with files for libibverbs, and print how to run other programs on it")
	refresh := flag.Bool("refresh", false, "fetch the package lists again")
	flag.Parse()
	if *n < 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	o := options{driver: *driver, release: *release, seed: *seed, n: *n, out: *out, prepare: *dir, refresh: *refresh}
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

type options struct {
	driver, release string
	seed            uint64
	n               int
	out             string
	prepare         string
	refresh         bool
}

func run(ctx context.Context, o options) error {
	root, err := source.Root()
	if err != nil {
		return err
	}
	if o.prepare != "" {
		return prepare(ctx, root, o.prepare, o)
	}
	if o.out != "" && o.driver == "" {
		o.driver = "mlx5"
	}
	if o.out != "" && o.release == "" {
		o.release = releases[len(releases)-1]
	}
	done := 0
	for _, r := range releases {
		if o.release != "" && o.release != r {
			continue
		}
		lib, err := openLibrary(ctx, r, o.refresh)
		if err != nil {
			return err
		}
		if err := lib.build(ctx, filepath.Join(root, "test/oracle/c")); err != nil {
			return err
		}
		for _, p := range plans {
			if o.driver != "" && o.driver != p.driver || o.out == "" && r == releases[1] && !slices.Contains(between, p.driver) {
				continue
			}
			text, err := dump(ctx, lib, p, o.seed, o.lists(p.driver, r))
			if err != nil {
				return err
			}
			file := o.out
			if file == "" {
				file = filepath.Join(root, "provider", p.driver, "testdata", fmt.Sprintf("%s-rdmacore-%s.jsonl.gz", p.driver, lib.upstream()))
			}
			if err := write(file, text, o.out != ""); err != nil {
				return err
			}
			done++
		}
	}
	if done == 0 {
		return errors.New("no such driver or release")
	}
	return nil
}

// lists returns the number of random lists.
func (o *options) lists(driver, release string) int {
	switch {
	case o.n > 0:
		return o.n
	case o.out != "" || driver == "mlx5" && release == releases[len(releases)-1]:
		return committedN
	}
	return committedNOther
}

// dump runs all processes of a plan and returns the file's text.
func dump(ctx context.Context, lib *library, p plan, seed uint64, n int) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"t":"file","format":%d,"driver":%q,"rdma_core":%q,"seed":%d,"n":%d}`+"\n", vector.Format, p.driver, lib.version, seed, n)
	for _, r := range p.runs {
		text, err := lib.run(ctx, p, r, seed, n)
		if err != nil {
			return nil, err
		}
		b.Write(text)
	}
	// If the reader refuses the text, this program has a fault.
	if _, err := vector.Read(bytes.NewReader(b.Bytes())); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// write writes the file and prints whether it has changed.
func write(file string, text []byte, fresh bool) error {
	packed := text
	if strings.HasSuffix(file, ".gz") {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		packed = b.Bytes()
	}
	what := "unchanged"
	if old, err := unpacked(file); fresh || os.IsNotExist(err) {
		what = "new"
	} else if err != nil {
		return err
	} else if !bytes.Equal(old, text) {
		what = "CHANGED"
	}
	fmt.Printf("%s: %d records, %d kB: %s\n", file, bytes.Count(text, []byte("\n")), len(packed)/1000, what)
	if what == "unchanged" {
		return nil // another version of gzip must not change the file
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, packed, 0o644)
}

func unpacked(file string) ([]byte, error) {
	r, err := vector.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
