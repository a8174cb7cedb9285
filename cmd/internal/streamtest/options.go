// SPDX-License-Identifier: Apache-2.0

package streamtest

import (
	"fmt"
	"math"
	"strings"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

const (
	port          = "7471"  // without a flag, as in C
	defaultBuffer = 1 << 19 // SO_SNDBUF and SO_RCVBUF without -B
	maxTransfer   = 1 << 30 // bytes
)

// options holds the parsed command line.
type options struct {
	kind       *Kind
	names      tool.Names // -s, without which this is the server, -b, -f, -p
	buffer     int        // -B, bytes of SO_SNDBUF and SO_RCVBUF
	inline     int        // -i, bytes, for the tests of the latency
	iterations int        // -I
	count      int        // -C
	size       int        // -S, bytes
	all        bool       // -S all
	custom     bool       // only the test of -I, -C and -S
	keepAlive  int        // -k, seconds
	tcp        bool       // -T s
	verify     bool       // -T v
	async      bool       // -T a
	block      bool       // -T b
}

// parse parses the command line.
func parse(k *Kind, args []string, u *tool.UI) (*options, error) {
	opt := &options{
		kind:       k,
		names:      tool.Names{Service: port, Space: cm.PortSpaceTCP},
		inline:     64,
		iterations: 1,
		count:      1000,
		size:       1000,
	}
	spec := "s:b:f:B:i:I:C:S:p:T:"
	if k.KeepAlive {
		spec += "k:"
	}
	flags, _, err := tool.Getopt(spec, args)
	if err != nil {
		return nil, err
	}
	for _, f := range flags {
		if err := opt.set(f, u); err != nil {
			return nil, err
		}
	}
	return opt, nil
}

func (opt *options) set(f tool.Flag, u *tool.UI) (err error) {
	switch f.Name {
	case 's':
		opt.names.Dest = f.Value
	case 'b':
		opt.names.Source = f.Value
	case 'f':
		if opt.names.Format, err = tool.ParseFormat(f.Value); err != nil {
			u.Errorf("Warning: %v\n", err)
		}
		return nil
	case 'B':
		opt.buffer, err = f.Int(0, maxTransfer/2)
	case 'i':
		opt.inline, err = f.Int(0, math.MaxUint16)
	case 'I':
		opt.custom = true
		opt.iterations, err = f.Int(0, math.MaxInt32)
	case 'C':
		opt.custom = true
		opt.count, err = f.Int(0, math.MaxInt32)
	case 'S':
		if tool.HasPrefixFold(f.Value, "all") {
			opt.all = true
			return nil
		}
		opt.custom = true
		opt.size, err = f.Int(0, maxTransfer)
	case 'p':
		opt.names.Service = f.Value
	case 'k':
		opt.keepAlive, err = f.Int(0, math.MaxInt32)
	case 'T':
		return opt.setTest(f.Value)
	}
	return err
}

// testOptions are the values of -T. Each has a letter and a word, of which a prefix is enough.
var testOptions = []struct {
	letter, word string
	help         string // line of the usage
	set          func(*options)
}{
	{"s", "socket", "s|sockets - use standard tcp/ip sockets", func(o *options) { o.tcp = true }},
	{"a", "async", "a|async - asynchronous operation (use poll)", func(o *options) { o.async = true }},
	{"b", "block", "b|blocking - use blocking calls", func(o *options) { o.block = true }},
	{"f", "fork", "f|fork - fork server processing", func(o *options) { o.tcp = true }},
	{"n", "nonblock", "n|nonblocking - use nonblocking calls", func(o *options) { o.block = false }},
	{"r", "resolve", "r|resolve - use rdma cm to resolve address", nil},
	{"v", "verify", "v|verify - verify data", func(o *options) { o.verify = true }},
}

// setTest applies a value of -T, which is a letter or a word.
func (opt *options) setTest(value string) error {
	for _, o := range testOptions {
		if strings.Contains(opt.kind.TestOptions, o.letter) && (value == o.letter || len(value) > 1 && tool.HasPrefixFold(value, o.word)) {
			if o.set != nil {
				o.set(opt)
			}
			return nil
		}
	}
	return fmt.Errorf("-T %s: unknown test option", value)
}

// usage returns the text of C's usage behind the name of the program.
func (k *Kind) usage() string {
	text := `	[-s server_address]
	[-b bind_address]
	[-f address_format]
	    name, ip, ipv6, or gid
	[-B buffer_size]
	[-i inline_size]
	[-I iterations]
	[-C transfer_count]
	[-S transfer_size or all]
	[-p port_number]
`
	if k.KeepAlive {
		text += "\t[-k keepalive_time]\n"
	}
	text += "\t[-T test_option]\n"
	for _, o := range testOptions {
		if strings.Contains(k.TestOptions, o.letter) {
			text += "\t    " + o.help + "\n"
		}
	}
	return text
}
