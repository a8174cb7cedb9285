// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package kernel downloads Debian kernels and creates initramfs images of their modules.
package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"purerdma/test/connectx/cards"
	"purerdma/test/erdma"
	"purerdma/test/microvm/arch"
	"purerdma/test/netxtreme"
	"purerdma/test/pci"
)

// A Series is a kernel series for -kernel.
type Series struct {
	Name      string     // value of -kernel
	Release   string     // the Debian release of the kernel.
	Backports bool       // whether it is in the release's backports.
	Image     string     // the package of vmlinuz, where each # is a number and @ is the architecture.
	Only      *arch.Arch // the only architecture with this series, or nil
	More      []string   // name prefixes of further packages, before the release
	Prebuilt  bool       // whether the modules of its packages are the only ones, because a build fails.
}

const digits = "0123456789"

// prefix returns the common prefix of the names of its packages.
func (s Series) prefix() string {
	p, _, _ := strings.Cut(s.Image, "#")
	return p
}

// release returns the kernel's release, if pkg is a package with the series' vmlinuz. It is the
// part of the package's name from the first number on.
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
		Image: "linux-image-6.1.#-#-@",
	},
	{
		// The oldest series that package verbs supports (verbs.MinKernel). The dynamic linker of
		// Debian 11 lacks the option --argv0, with which wrapPrograms starts the build programs.
		// Without the option, the last of these programs fails.
		Name: "5.10", Release: "bullseye", Prebuilt: true,
		Image: "linux-image-5.10.#-#-@",
	},
	{
		Name: "6.12", Release: "trixie",
		Image: "linux-image-6.12.#+deb13-@",
	},
	{
		// linux-image of this series is empty and only depends on these packages.
		Name: "7", Release: "trixie", Backports: true,
		Image: "linux-binary-7.#.#+deb13-@",
		More:  []string{"linux-modules-", "linux-base-"},
	},
	{
		// Pages of 16 KiB.
		Name: "6.12-16k", Release: "trixie", Only: arch.ARM64,
		Image: "linux-image-6.12.#+deb13-@-16k",
	},
}

// A Driver is an RDMA driver for -driver.
type Driver struct {
	Name    string
	Modules []string // modules of the driver
	Model   *Model   // nil unless its devices are PCI functions, which rdmavm models
	prepare func(context.Context, *Kernel, Sources) error
}

// A Model is the model of a driver's PCI functions.
type Model struct {
	// NetDriver is the kernel's name of the PCI driver, if it creates a network device for each
	// function. Otherwise the functions use the network cards of the virtual machine that have
	// their MAC addresses.
	NetDriver string
	New       func() pci.Fabric
	// WaitForWrites makes stores to the functions wait for the model, which executes them in the order of the program
	// even if they are to different functions (qemu.Machine.WaitForWrites).
	WaitForWrites bool
}

// Prepare adds the modules to the kernel that the driver needs and that Debian's kernels do not
// include.
func (d Driver) Prepare(ctx context.Context, k *Kernel, s Sources) error {
	if d.prepare == nil {
		return nil
	}
	return d.prepare(ctx, k, s)
}

var drivers = []Driver{
	// rxe gets its checksum through the crypto API. Up to about 6.12 the checksum is in a
	// separate module that is not a dependency of any other module.
	{Name: "rxe", Modules: []string{"?crc32_generic", "?crc32c_generic", "rdma_rxe"}},
	// The previous comment also applies to siw. Debian includes only its source.
	{Name: "siw", Modules: []string{"?crc32c_generic", "siw"},
		prepare: source{"siw", "drivers/infiniband/sw/siw", "CONFIG_RDMA_SIW=m"}.prepare},
	// The modules of ConnectX cards depend on each other in this order.
	{Name: "mlx5", Modules: []string{"mlxfw", "mlx5_core", "mlx5_ib"}, prepare: card{"mlx5", "mellanox", []string{"mlxfw", "mlx5_core"}}.prepare,
		Model: &Model{NetDriver: "mlx5_core", New: cards.New}},
	{Name: "erdma", Modules: []string{"erdma"},
		prepare: source{"erdma", "drivers/infiniband/hw/erdma", "CONFIG_INFINIBAND_ERDMA=m"}.prepare,
		Model:   &Model{New: erdma.New, WaitForWrites: true}},
	// Linux 6.1 of Debian lacks bnxt_re.
	{Name: "bnxt_re", Modules: []string{"bnxt_en", "bnxt_re"}, prepare: card{"bnxt_re", "broadcom", []string{"bnxt_en"}}.prepare,
		Model: &Model{NetDriver: "bnxt_en", New: netxtreme.New}},
	{Name: "bnxt_re-p7", Modules: []string{"bnxt_en", "bnxt_re"}, prepare: card{"bnxt_re", "broadcom", []string{"bnxt_en"}}.prepare,
		Model: &Model{NetDriver: "bnxt_en", New: netxtreme.NewP7}},
}

// Find returns the series with a name for an architecture, or the default for "".
func Find(name string, on *arch.Arch) (Series, error) {
	var some []Series
	for _, s := range table {
		if s.Only == nil || s.Only == on {
			s.Image = strings.ReplaceAll(s.Image, "@", on.Name)
			some = append(some, s)
		}
	}
	if name == "" {
		return some[0], nil
	}
	for _, s := range some {
		if s.Name == name {
			return s, nil
		}
	}
	return Series{}, fmt.Errorf("-kernel %s: want %s (RDMAVM_KERNEL selects a custom kernel)", name, names(some, func(s Series) string { return s.Name }))
}

// FindDriver returns the driver with a name.
func FindDriver(name string) (Driver, error) {
	for _, d := range drivers {
		if d.Name == name {
			return d, nil
		}
	}
	return Driver{}, fmt.Errorf("-driver %s: want %s", name, names(drivers, func(d Driver) string { return d.Name }))
}

func names[T any](s []T, name func(T) string) string {
	var n []string
	for _, e := range s {
		n = append(n, name(e))
	}
	return strings.Join(n, ", ")
}

// Transport lists the modules with which the guest accesses the host. A kernel may not have the
// modules with a "?" in front.
var Transport = []string{"virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay"}

// RDMA returns the guest's RDMA modules in loading order. ib_uverbs precedes rdma_cm, because
// rdma_cm's clients must find ib_uverbs's devices.
func RDMA(d Driver) []string {
	return slices.Concat([]string{"veth", "virtio_net", "?af_packet", "ib_uverbs"}, d.Modules, []string{"rdma_cm", "rdma_ucm"})
}
