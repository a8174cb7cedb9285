// SPDX-License-Identifier: Apache-2.0

// The comparison with the running kernel: a module of its own, so that importers
// of purerdma never get what reads its type information.
module purerdma/test/abi/btf

go 1.26.0

require (
	github.com/cilium/ebpf v0.22.0
	golang.org/x/sys v0.49.0
	purerdma v0.0.0
)

replace purerdma => ../../..
