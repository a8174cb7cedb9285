// SPDX-License-Identifier: Apache-2.0

// Ibv_asyncwatch prints the asynchronous events of an RDMA device as they arrive. It has the
// flags and output of rdma-core's ibv_asyncwatch. The only difference is the file descriptor in
// the first line. It is always -1, because the library reads the events itself.
package main

import (
	"context"
	"io"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

const statusFailed = 1

var flags = []tool.LongFlag{{Name: 'd', Long: "ib-dev", Arg: true}, {Name: 'h', Long: "help"}}

// names contains the events of the C program. Other events are printed as unexpected.
var names = map[verbs.AsyncEventType]string{
	verbs.AsyncDeviceFatal:      "IBV_EVENT_DEVICE_FATAL",
	verbs.AsyncPortActive:       "IBV_EVENT_PORT_ACTIVE",
	verbs.AsyncPortErr:          "IBV_EVENT_PORT_ERR",
	verbs.AsyncLIDChange:        "IBV_EVENT_LID_CHANGE",
	verbs.AsyncPKeyChange:       "IBV_EVENT_PKEY_CHANGE",
	verbs.AsyncSMChange:         "IBV_EVENT_SM_CHANGE",
	verbs.AsyncClientReregister: "IBV_EVENT_CLIENT_REREGISTER",
	verbs.AsyncGIDChange:        "IBV_EVENT_GID_CHANGE",
}

func main() { tool.Main(run) }

// run runs the program until ctx ends or the device is removed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("ibv_asyncwatch", stdout, stderr)
	given, _, err := tool.GetoptLong(flags, args)
	name := ""
	for _, f := range given {
		if f.Name == 'h' {
			usage(u)
			return 0
		}
		name = f.Value
	}
	if err != nil {
		u.Errorf("%s: %v\n", u.Path, err)
		usage(u)
		return statusFailed
	}
	dev, err := tool.OpenDevice(u, name)
	if err != nil {
		return statusFailed
	}
	defer dev.Close()
	events, err := dev.AsyncEvents()
	if err != nil {
		u.Fail(err)
		return statusFailed
	}
	defer events.Close()
	u.Printf("%s: async event FD %d\n", dev.Name(), -1)
	for {
		ev, err := events.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				u.Fail(err)
			}
			return statusFailed
		}
		if ev.Lost > 0 {
			u.Errorf("%s: lost %d events\n", u.Name, ev.Lost)
		}
		what, ok := names[ev.Type]
		if !ok {
			what = "unexpected"
		}
		if err := u.Printf("  event_type %s (%d), port %d\n", what, ev.Type, ev.Port); err != nil {
			u.Fail(err)
			return statusFailed
		}
	}
}

func usage(u *tool.UI) {
	u.Printf("Usage:\n  %s            start an asyncwatch process\n\nOptions:\n"+
		"  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"+
		"  -h, --help             print a help text and exit\n", u.Path)
}
