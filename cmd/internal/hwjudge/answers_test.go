// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"purerdma/abi"
)

// TestAnswers describes responses of a ConnectX, of another device, and of an unknown sender.
func TestAnswers(t *testing.T) {
	resp := abi.Mlx5AllocUcontextResp{BFRegSize: 512, CQEVersion: 1}
	bytes := hex.EncodeToString(append(abi.Bytes(&resp), 7, 7))
	const text = `{"driver":"%s","abi_version":1,"library":[{"name":"UVERBS_METHOD_GET_CONTEXT","out":{"4097":"%s"}}],"probes":[{"name":"x\u001b[2J","rc":22}]}`
	for what, tc := range map[string]struct{ text, want string }{
		"ConnectX":     {fmt.Sprintf(text, "1", bytes), "BFRegSize:512"},
		"more bytes":   {fmt.Sprintf(text, "1", bytes), "and 2 unknown bytes"},
		"other device": {fmt.Sprintf(text, "9", bytes), fmt.Sprintf("GET_CONTEXT: %d bytes of the driver", len(bytes)/2)},
		"error":        {fmt.Sprintf(text, "1", bytes), "x?[2J: invalid argument"},
		"no bytes":     {fmt.Sprintf(text, "1", "xy"), "invalid byte"},
		"no JSON":      {"text", "refused"},
	} {
		j := Judge(card(), map[string][]byte{"kernel-answers/answers.json": []byte(tc.text)})
		if got := j.String(); !strings.Contains(got, tc.want) || strings.Contains(got, "\x1b") {
			t.Errorf("Judge(%s) = %s, want %q", what, got, tc.want)
		}
	}
}
