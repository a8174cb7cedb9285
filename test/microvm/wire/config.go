// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Config is the configuration that the host passes to the guest.
type Config struct {
	Driver   string            // rxe, siw or mlx5
	PCI      bool              // whether the driver finds its devices itself.
	Modules  []string          // modules to load at the start, in order.
	Params   map[string]string // parameters of these modules, by name.
	Ends     int               // number of RDMA devices in this VM, 1 or 2.
	VMs      int               // number of VMs on the network, 1 unless -vms.
	Host     int               // index of this VM.
	Root     string            // RootOverlay or RootNone
	Layers   []string          // 9p tags of the overlay's lower directories, top first
	Shares   []Share           // directories of the host, mounted in order
	Kernel   string            // 9p tag of the kernel's modules
	Program  string            // path of the program, for RootNone.
	Commands []Command         // commands to run, one after the other.
	TTY      bool              // whether to run the command on a terminal.
	Rows     uint16
	Cols     uint16
	Timeout  time.Duration // limit for each command, 0 for none.
}

// Kinds of root directory.
const (
	RootOverlay = "host" // the host's root, read-only, with a tmpfs over it
	RootNone    = "none" // only the program
)

// A Share is a directory of the host that appears at its own path in the guest.
type Share struct {
	Tag  string
	Path string
}

// A Command is a program to run.
type Command struct {
	Dir  string   `json:"dir"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

// Started is the contents of a Start frame.
type Started struct{ Index int }

// Ended is the contents of an End frame. Status has a shell's encoding. It is 128+n for a
// program that signal n killed, and 126 or 127 for a program that could not be started.
type Ended struct {
	Index   int
	Status  int
	Error   string        // reason why the program could not be started
	Timeout bool          // whether it exceeded the timeout
	Elapsed time.Duration // duration of the run
}
