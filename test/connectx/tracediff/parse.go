// SPDX-License-Identifier: Apache-2.0

package tracediff

import (
	"encoding/hex"
	"regexp"
	"strconv"
)

// line is a line of a trace with its object, its numbers, and its bytes.
type line struct {
	kind    string // such as "request".
	text    string // service, command or queue.
	numbers []uint64
	bytes   [][]byte
}

// shapes lists the relevant lines, in the format of package connectx's records. A prefix such
// as a time is allowed. A group of hexadecimal digits after 0x is a number, and a group of
// digits without 0x is bytes. Other groups are the text.
var shapes = []struct {
	kind string
	re   *regexp.Regexp
}{
	{"request", regexp.MustCompile(`(\S+) request 0x([0-9a-f]+) of (?P<text>\S+) QP 0x([0-9a-f]+): (?P<bytes>[0-9a-f]+)$`)},
	{"receive", regexp.MustCompile(`(\S+) receive 0x([0-9a-f]+) of QP 0x([0-9a-f]+) from (?P<text>\S+) \S+: (?P<bytes>[0-9a-f]+)$`)},
	{"doorbell", regexp.MustCompile(`(\S+) doorbell page 0x([0-9a-f]+)\+0x([0-9a-f]+) (?P<bytes>[0-9a-f]+)(?: record (?P<bytes>[0-9a-f]+))?$`)},
	{"completion", regexp.MustCompile(`(\S+) completion \d+ of CQ 0x([0-9a-f]+): .*: (?P<bytes>[0-9a-f]+)$`)},
	{"command", regexp.MustCompile(`(\S+) command (?P<text>CREATE_\w+) in \d+ out \d+: (?P<bytes>[0-9a-f]+) of (?P<bytes>[0-9a-f]+)$`)},
}

// parse parses a line and returns its device. ok is false if the line is not relevant.
func parse(s string) (device string, l line, ok bool) {
	for _, shape := range shapes {
		m := shape.re.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		l.kind = shape.kind
		names := shape.re.SubexpNames()
		for i, v := range m[2:] {
			switch names[i+2] {
			case "text":
				l.text = v
			case "bytes":
				b, err := hex.DecodeString(v)
				if err != nil {
					return "", l, false
				}
				l.bytes = append(l.bytes, b)
			default:
				n, err := strconv.ParseUint(v, 16, 32)
				if err != nil {
					return "", l, false
				}
				l.numbers = append(l.numbers, n)
			}
		}
		return m[1], l, true
	}
	return "", l, false
}
