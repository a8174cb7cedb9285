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

// getPackages returns a directory with the Debian packages asked for and all
// that they depend on: the whole of it, not only what this machine lacks, so
// that it is the same whatever is installed here. Of another release they bring
// their C library, under which this machine's programs run, too, if it is newer.
func getPackages(ctx context.Context, c *cache.Cache, o *Options) (string, error) {
	names := slices.Sorted(slices.Values(o.Packages))
	release := cmp.Or(o.Release, apt.HostRelease(), "bookworm")
	key := hash(append([]string{release}, names...))
	dir, err := c.Get("packages", key, o.Refresh, func() (string, func(string) error, error) {
		a, err := apt.Open(ctx, c.Path("apt", release), release, false, o.Refresh, o.Stderr)
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
		err = fmt.Errorf("%w; install what you need here: the guest sees this machine's root", err)
	}
	if err != nil {
		return "", fmt.Errorf("getting packages %s: %w", strings.Join(names, ", "), err)
	}
	return dir, nil
}

func hash(s []string) string {
	sum := sha256.Sum256([]byte(strings.Join(s, "\n")))
	return fmt.Sprintf("%x", sum[:8])
}
