// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/cache"
)

// getPackages returns a directory with the requested Debian packages and all their
// dependencies. It includes dependencies that this machine already has, so that the result does
// not depend on the machine. Packages of another release include its C library. If it is newer,
// this machine's programs use it in the guest.
func getPackages(ctx context.Context, c *cache.Cache, o *Options) (string, error) {
	names := slices.Sorted(slices.Values(o.Packages))
	release := cmp.Or(o.Release, apt.HostRelease(), "bookworm")
	key := hash(append([]string{release + o.Arch.Suffix()}, names...))
	dir, err := c.Get("packages", key, o.Refresh, func() (string, func(string) error, error) {
		a, err := apt.Open(ctx, c.Path("apt", release+o.Arch.Suffix()), o.Arch, release, false, o.Refresh, o.Stderr)
		if err != nil {
			return "", nil, err
		}
		closure, err := a.Closure(ctx, names...)
		if err != nil {
			return "", nil, err
		}
		var files []string
		for _, p := range closure {
			files = append(files, p.File)
		}
		return hash(files), func(dst string) error { return a.UnpackAll(ctx, dst, nil, names...) }, nil
	})
	if errors.Is(err, apt.ErrNotDebian) {
		err = fmt.Errorf("%w (install the programs on this machine, whose root the guest uses)", err)
	}
	if err != nil {
		return "", fmt.Errorf("get packages %s: %w", strings.Join(names, ", "), err)
	}
	return dir, nil
}

func hash(s []string) string {
	sum := sha256.Sum256([]byte(strings.Join(s, "\n")))
	return fmt.Sprintf("%x", sum[:8])
}
