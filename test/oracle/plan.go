// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import "strings"

// A plan describes a driver. It lists the processes that make the driver's vectors, in order.
type plan struct {
	driver   string // The file c/kernel_*.c of the fake kernel defines fakeuv_DRIVER.
	device   string // Name of the device.
	node     string // Node type of the device in sysfs.
	abi      string // Version of the kernel driver's ABI.
	modalias string // libibverbs finds the provider of a PCI device by it.
	dumper   string // Program of the files c/DUMPER.c and c/DUMPER_*.c.
	libs     []string
	runs     []process
}

// A process runs one scenario of a dumper.
type process struct {
	scenario string
	env      []string
}

var plans = []plan{
	{"mlx5", "mlx5_0", "1: CA", "1", "pci:v000015B3d00001019sv000015B3sd00000008bc02sc00i00", "mlx5", []string{"-lmlx5"}, []process{
		{scenario: "rc"},
		{"rc", []string{"FAKEUV_UAR=legacy"}},
		{"rc", []string{"FAKEUV_BF=0"}},
		{"rc", []string{"MLX5_SINGLE_THREADED=1"}},
		{scenario: "uc"},
		{scenario: "trace"},
		{"trace", []string{"FAKEUV_UAR=legacy"}},
		{scenario: "sizes"},
		{"sizes", []string{"FAKEUV_UAR=legacy"}},
		{scenario: "wrap"},
		{"wrap", []string{"FAKEUV_BF=0"}},
		{"wrap", []string{"FAKEUV_UAR=legacy", "FAKEUV_BFREG=shared"}},
		{scenario: "counters"},
		{scenario: "ud"},
		{scenario: "srq"},
		{scenario: "srq_count"},
		{scenario: "xrc"},
		{scenario: "mw"},
		{scenario: "raw"},
		{"raw", []string{"FAKEUV_INLINE=l2"}},
		{scenario: "dc"},
		{scenario: "resets"},
		{scenario: "faults"},
		{scenario: "ece"},
		{scenario: "cqs"},
		{"cqs", []string{"MLX5_CQE_SIZE=128"}},
		{scenario: "random"},
	}},
	{"rxe", "rxe0", "1: CA", "2", "", "sw", nil, []process{
		{scenario: "fixed"}, {scenario: "ud"}, {scenario: "srq"}, {scenario: "mw"}, {scenario: "random"},
	}},
	{"siw", "siw0", "4: RNIC", "1", "", "sw", nil, []process{
		{scenario: "fixed"}, {scenario: "srq"}, {scenario: "random"},
	}},
	{"erdma", "erdma_0", "4: RNIC", "1", "pci:v00001DEDd0000107Fsv00001DEDsd00005008bc02sc00i00", "erdma", nil, []process{
		{scenario: "operations"},
		{scenario: "trace"},
		{scenario: "sizes"},
		{"sizes", []string{"FAKEUV_SDB=entry"}},
		{"sizes", []string{"FAKEUV_SDB=shared"}},
		{scenario: "wrap"},
		{scenario: "counters"},
		{scenario: "statuses"},
		{scenario: "events"},
		{scenario: "random"},
	}},
	{"bnxt_re", "bnxt_re0", "1: CA", "1", "pci:v000014E4d00001750sv000014E4sd00002100bc02sc00i00", "bnxt_re", nil, bnxtRuns()},
}

// bnxtRuns returns the processes of bnxt_re. Each scenario runs on each generation of chips, and some of them run with
// other features of the chips.
func bnxtRuns() []process {
	all := []string{"operations", "sizes", "wrap", "counters", "statuses", "ud", "srq", "flush", "resets", "cqs", "random"}
	some := []string{"sizes", "wrap", "cqs", "random"}
	var runs []process
	for _, c := range []struct {
		chip      string
		scenarios []string
	}{{"p4", all}, {"p4,pow2", some}, {"p5,push", all}, {"p5,paced", some}, {"p5,msn", some}, {"p7", some}, {"p7,push", all}} {
		for _, s := range c.scenarios {
			runs = append(runs, process{s, []string{"FAKEUV_CHIP=" + c.chip}})
		}
	}
	return runs
}

// drivers lists the names of the drivers.
func drivers() string {
	var names []string
	for _, p := range plans {
		names = append(names, p.driver)
	}
	return strings.Join(names, ", ")
}
