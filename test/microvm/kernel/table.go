// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package kernel gets Debian kernels and makes initramfs images of their
// modules.
package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Series is a kernel series that -kernel can name.
type Series struct {
	Name      string   // as in -kernel
	Release   string   // the Debian release that has it
	Backports bool     // ... among its backports
	Image     string   // the package that holds vmlinuz; each # is a number
	More      []string // further packages, as their names begin before the release
}

const digits = "0123456789"

// prefix is what the names of its packages begin with.
func (s Series) prefix() string {
	p, _, _ := strings.Cut(s.Image, "#")
	return p
}

// release returns the kernel's release, which is the end of the package's name from
// the first number on, if that is a package with the series's vmlinuz.
func (s Series) release(pkg string) (string, bool) {
	rest := pkg
	for i, part := range strings.Split(s.Image, "#") {
		if i > 0 {
			n := len(rest)
			if rest = strings.TrimLeft(rest, digits); len(rest) == n {
				return "", false
			}
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, part); !ok {
			return "", false
		}
	}
	return pkg[strings.IndexAny(pkg, digits):], rest == ""
}

// table lists the series, the default first.
var table = []Series{
	{
		Name: "6.1", Release: "bookworm",
		Image: "linux-image-6.1.#-#-amd64",
	},
	{
		// The oldest that package verbs supports (verbs.MinKernel).
		Name: "5.10", Release: "bullseye",
		Image: "linux-image-5.10.#-#-amd64",
	},
	{
		Name: "6.12", Release: "trixie",
		Image: "linux-image-6.12.#+deb13-amd64",
	},
	{
		// linux-image of this series is empty: it only depends on these.
		Name: "7", Release: "trixie", Backports: true,
		Image: "linux-binary-7.#.#+deb13-amd64",
		More:  []string{"linux-modules-", "linux-base-"},
	},
}

// A Driver is an RDMA driver that -driver can name.
type Driver struct {
	Name    string
	Modules []string // to load for it
	PCI     bool     // its devices are PCI functions, which somebody has to model
	prepare func(context.Context, *Kernel, Sources) error
}

// Prepare adds to the kernel what the driver needs and Debian's kernels lack.
func (d Driver) Prepare(ctx context.Context, k *Kernel, s Sources) error {
	if d.prepare == nil {
		return nil
	}
	return d.prepare(ctx, k, s)
}

var drivers = []Driver{
	// rxe finds its checksum through the crypto API, up to 6.12 or so in
	// a module of its own that nothing depends on.
	{Name: "rxe", Modules: []string{"?crc32_generic", "?crc32c_generic", "rdma_rxe"}},
	// The same is true of siw. Debian ships it as source only.
	{Name: "siw", Modules: []string{"?crc32c_generic", "siw"}, prepare: prepareSIW},
	// The modules of ConnectX cards depend on each other in this order.
	{Name: "mlx5", Modules: []string{"mlxfw", "mlx5_core", "mlx5_ib"}, PCI: true, prepare: prepareMLX5},
}

// Find returns the series called name; "" is the default.
func Find(name string) (Series, error) {
	if name == "" {
		return table[0], nil
	}
	for _, s := range table {
		if s.Name == name {
			return s, nil
		}
	}
	return Series{}, fmt.Errorf("-kernel %s: unknown; known are %s, and RDMAVM_KERNEL names a kernel of your own", name, names(table, func(s Series) string { return s.Name }))
}

// FindDriver returns the driver called name.
func FindDriver(name string) (Driver, error) {
	for _, d := range drivers {
		if d.Name == name {
			return d, nil
		}
	}
	return Driver{}, fmt.Errorf("-driver %s: unknown; known are %s", name, names(drivers, func(d Driver) string { return d.Name }))
}

func names[T any](s []T, name func(T) string) string {
	var n []string
	for _, e := range s {
		n = append(n, name(e))
	}
	return strings.Join(n, ", ")
}

// Transport are the modules without which the guest reaches nothing of the
// host. A "?" in front says that a kernel may lack the module.
var Transport = []string{"virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay"}

// RDMA returns the modules that make the RDMA part of the guest, in the
// order in which they are to be loaded: ib_uverbs before rdma_cm, as the
// latter's clients must find the former's devices.
func RDMA(d Driver) []string {
	return slices.Concat([]string{"veth", "virtio_net", "?af_packet", "ib_uverbs"}, d.Modules, []string{"rdma_cm", "rdma_ucm"})
}
