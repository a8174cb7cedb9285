// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package kernel gets Debian kernels and makes initramfs images of their
// modules.
package kernel

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Series is a kernel series that -kernel can name.
type Series struct {
	Name      string         // as in -kernel
	Release   string         // the Debian release that has it
	Backports bool           // ... among its backports
	Prefix    string         // what the names of its packages begin with
	Image     *regexp.Regexp // the package that holds vmlinuz; group 1 is the kernel's release
	More      []string       // further packages, as their names begin before the release
}

// table lists the series, the default first.
var table = []Series{
	{
		Name: "6.1", Release: "bookworm", Prefix: "linux-image-6.1.",
		Image: regexp.MustCompile(`^linux-image-(6\.1\.\d+-\d+-amd64)$`),
	},
	{
		Name: "6.12", Release: "trixie", Prefix: "linux-image-6.12.",
		Image: regexp.MustCompile(`^linux-image-(6\.12\.\d+\+deb13-amd64)$`),
	},
	{
		// linux-image of this series is empty: it only depends on these.
		Name: "7", Release: "trixie", Backports: true, Prefix: "linux-binary-7.",
		Image: regexp.MustCompile(`^linux-binary-(7\.\d+\.\d+\+deb13-amd64)$`),
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
