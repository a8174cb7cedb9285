// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

// Config is what the host tells the guest.
type Config struct {
	Driver   string    // rxe, siw or mlx5
	PCI      bool      // the driver finds its devices by itself
	Modules  []string  // to load at the start, in order
	Ends     int       // RDMA devices to make in this VM: 1 or 2
	VMs      int       // number of VMs on the network; 1 unless -vms
	Host     int       // which one this is
	Root     string    // RootOverlay or RootNone
	Layers   []string  // 9p tags of the overlay's lower directories, top first
	Shares   []Share   // directories of the host, mounted in order
	Kernel   string    // 9p tag of the kernel's modules
	Program  string    // RootNone: where the program belongs
	Commands []Command // to run, one after the other
	TTY      bool      // run the command on a terminal
	Rows     uint16
	Cols     uint16
	Timeout  time.Duration // per command; 0 is none
}

// Kinds of root directory.
const (
	RootOverlay = "host" // the host's, read-only, with a tmpfs over it
	RootNone    = "none" // nothing but the program
)

// A Share is a directory of the host that the guest sees at its own path.
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

// Ended is the contents of an End frame. Status is as a shell has it:
// 128+n for a program that signal n killed, 126 and 127 for one that could
// not be started.
type Ended struct {
	Index   int
	Status  int
	Error   string        // why the program could not be started
	Timeout bool          // it ran longer than it may
	Elapsed time.Duration // how long it ran
}
