// SPDX-License-Identifier: Apache-2.0

package tracediff

import (
	"encoding/hex"
	"regexp"
	"strconv"
)

// line is one of a trace: what it is of, its numbers, and its bytes.
type line struct {
	kind    string // "request" and so on
	text    string // a service, a command, a queue
	numbers []uint64
	bytes   [][]byte
}

// shapes are the lines that count, as the records of package connectx write them. There
// may be something before them, such as a time. A group of hexadecimal digits behind 0x
// is a number, and one of digits alone is bytes; others are the text.
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

// parse takes a line apart, and returns the device that it is of. It is not ok if the
// line does not count.
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
