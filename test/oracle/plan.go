// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

// A plan lists the processes that make the vectors of a driver, in order.
type plan struct {
	driver string
	device string // name of the device
	node   string // node type of the device in sysfs
	abi    string // version of the kernel driver's ABI
	runs   []process
}

// A process runs one scenario of a dumper.
type process struct {
	scenario string
	env      []string
}

var plans = []plan{
	{"mlx5", "mlx5_0", "1: CA", "1", []process{
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
	{"rxe", "rxe0", "1: CA", "2", []process{
		{scenario: "fixed"}, {scenario: "ud"}, {scenario: "srq"}, {scenario: "mw"}, {scenario: "random"},
	}},
	{"siw", "siw0", "4: RNIC", "1", []process{
		{scenario: "fixed"}, {scenario: "srq"}, {scenario: "random"},
	}},
}
