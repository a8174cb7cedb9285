// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"syscall"

	"purerdma/abi"
)

// answersFile is the name of a file with responses of the kernel (hwcheck.AnswersFile).
const answersFile = "answers.json"

// maxAnswers bounds the printed commands of a file.
const maxAnswers = 100

// answers describes a file with responses of the kernel. It decodes the driver's part of a ConnectX.
func answers(name string, data []byte) (lines []string) {
	type call struct {
		Name string
		RC   int
		Out  map[string]string
	}
	var a struct {
		Driver          string
		Library, Probes []call
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return []string{clean(name) + ": refused: " + clean(err.Error())}
	}
	lines = append(lines, fmt.Sprintf("%s: %d commands of the library, %d probes", clean(name), len(a.Library), len(a.Probes)))
	for _, c := range append(a.Library, a.Probes...) {
		if len(lines) > maxAnswers {
			return append(lines, "...")
		}
		part := c.Out[driverPart]
		switch {
		case c.RC != 0:
			lines = append(lines, fmt.Sprintf("  %s: %v", clean(c.Name), syscall.Errno(c.RC)))
		case part != "":
			b, err := hex.DecodeString(part)
			text := fmt.Sprintf("%d bytes of the driver", len(b))
			if f := connectXParts[c.Name]; err != nil {
				text = clean(err.Error())
			} else if f != nil && a.Driver == connectX {
				text = f(b)
			}
			lines = append(lines, fmt.Sprintf("  %s: %s", clean(c.Name), text))
		}
	}
	return lines
}

const (
	driverPart = "4097" // the number of the attribute
	connectX   = "1"    // the number of the driver
)

// connectXParts decodes the driver's parts of responses.
var connectXParts = map[string]func([]byte) string{
	"UVERBS_METHOD_GET_CONTEXT":         fields[abi.Mlx5AllocUcontextResp],
	"IB_USER_VERBS_EX_CMD_QUERY_DEVICE": fields[abi.Mlx5QueryDeviceResp],
}

// fields returns the fields of a struct with these first bytes. The rest is zero.
func fields[T any](b []byte) string {
	var v T
	n := copy(abi.Bytes(&v), b)
	text := fmt.Sprintf("%+v", v)
	if n < len(b) {
		text += fmt.Sprintf(" and %d unknown bytes", len(b)-n)
	}
	return text
}
