// SPDX-License-Identifier: Apache-2.0

// Ibv_devinfo prints the properties of RDMA devices. It has the flags and output of rdma-core's
// ibv_devinfo. The C program gets some properties from the user-space drivers of hardware and
// not from the kernel: TSO, packet pacing, hash functions. They are printed as 0.
package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// Exit statuses. The statuses of several devices are combined.
const (
	statusUsage   = 255 // -1
	statusOpen    = 1
	statusClose   = 3
	statusNoPort  = 4
	statusBadPort = 1
)

var flags = []tool.LongFlag{
	{Name: 'd', Long: "ib-dev", Arg: true},
	{Name: 'i', Long: "ib-port", Arg: true},
	{Name: 'l', Long: "list"},
	{Name: 'v', Long: "verbose"},
}

func main() { tool.Main(run) }

func run(_ context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("ibv_devinfo", stdout, stderr)
	status := devinfo(u, args)
	if err := u.Failure(); err != nil && status == 0 {
		u.Fail(err)
		status = statusOpen
	}
	return status
}

func devinfo(u *tool.UI, args []string) int {
	given, _, err := tool.GetoptLong(flags, args)
	var name string
	var only int
	verbose := false
	for _, f := range given {
		switch f.Name {
		case 'd':
			name = f.Value
		case 'i':
			n, err := strconv.ParseInt(f.Value, 0, 64)
			if err != nil || n < 1 || n > 255 {
				u.Fail(fmt.Errorf("-i %s: want a number from 1 to 255", f.Value))
				usage(u)
				return statusBadPort
			}
			only = int(n)
		case 'v':
			verbose = true
		case 'l':
			return list(u)
		}
	}
	if err != nil {
		u.Errorf("%s: %v\n", u.Path, err)
		usage(u)
		return statusUsage
	}
	infos, err := verbs.DefaultHost().Devices()
	if err != nil {
		u.Perror("Failed to get IB devices list", err)
		return statusUsage
	}
	status, found := 0, false
	for _, info := range infos {
		if name == "" || info.Name == name {
			found = true
			p := printer{u: u, name: info.Name, only: uint8(only), verbose: verbose}
			status |= p.device()
		}
	}
	switch {
	case found:
		return status
	case name != "":
		u.Errorf("IB device '%s' wasn't found\n", name)
	default:
		u.Errorf("No IB devices found\n")
	}
	return statusUsage
}

func list(u *tool.UI) int {
	infos, err := verbs.DefaultHost().Devices()
	if err != nil {
		u.Perror("Failed to get IB devices list", err)
		return statusUsage
	}
	plural := "s"
	if len(infos) == 1 {
		plural = ""
	}
	u.Printf("%d HCA%s found:\n", len(infos), plural)
	for _, info := range infos {
		u.Printf("\t%s\n", info.Name)
	}
	u.Printf("\n")
	return 0
}

func usage(u *tool.UI) {
	u.Printf("Usage: %s             print the ca attributes\n\nOptions:\n"+
		"  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"+
		"  -i, --ib-port=<port>   use port <port> of IB device (default all ports)\n"+
		"  -l, --list             print only the IB devices names\n"+
		"  -v, --verbose          print all the attributes of the IB device(s)\n", u.Path)
}
