// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/abi"
	"purerdma/internal/hwreport"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/rxe"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// readAnswers runs kernel-answers and returns its result, the text of its file and the decoded file.
func readAnswers(t *testing.T, target *Target) (hwreport.Result, string, *answers) {
	t.Helper()
	target.Files = t.TempDir()
	check, _ := Find("kernel-answers")
	r := check.Run(t.Context(), target)
	for _, line := range r.Evidence {
		t.Log(line)
	}
	text, err := os.ReadFile(filepath.Join(target.Files, AnswersFile))
	if err != nil {
		t.Fatalf("os.ReadFile after %s: %s: %v", r.Status, r.Reason, err)
	}
	a := new(answers)
	if err := json.Unmarshal(text, a); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return r, string(text), a
}

// driverBytes returns the driver's part of the first successful response to a command.
func driverBytes(calls []*kernelCall, name string) string {
	for _, c := range calls {
		if c.Name == name && c.RC == 0 {
			return c.Out["4097"]
		}
	}
	return ""
}

// TestAnswers keeps the responses of the software ConnectX. They have the bytes of its driver and no addresses of its ports.
func TestAnswers(t *testing.T) {
	_, target := model(t)
	r, text, a := readAnswers(t, target)
	if r.Status != hwreport.Pass || a.Driver != "1" {
		t.Errorf("Run(kernel-answers) = %s: %s, driver %s, want %s, driver 1", r.Status, r.Reason, a.Driver, hwreport.Pass)
	}
	for _, name := range []string{"UVERBS_METHOD_GET_CONTEXT", "IB_USER_VERBS_EX_CMD_QUERY_DEVICE", "UVERBS_METHOD_QP_CREATE"} {
		if driverBytes(a.Library, name) == "" {
			t.Errorf("driver's part of %s is empty, want bytes", name)
		}
	}
	var resp abi.Mlx5AllocUcontextResp
	b, err := hex.DecodeString(driverBytes(a.Library, "UVERBS_METHOD_GET_CONTEXT"))
	copy(abi.Bytes(&resp), b)
	if err != nil || resp.BFRegSize == 0 || resp.CQEVersion != 1 {
		t.Errorf("decoded GET_CONTEXT = %+v, %v, want registers and version 1", resp, err)
	}
	dev, err := target.Host.Open("mlx5_0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	defer dev.Close()
	gids, err := dev.GIDs()
	if err != nil || len(gids) == 0 {
		t.Fatalf("GIDs() = %v, %v, want some", gids, err)
	}
	for _, g := range gids {
		if strings.Contains(text, hex.EncodeToString(g.GID[:])) {
			t.Errorf("the responses contain GID %v, want none", g.GID)
		}
	}
}

// TestAnswersWithoutProvider keeps the responses of devices that the library does not support.
func TestAnswersWithoutProvider(t *testing.T) {
	for what, tc := range map[string]struct {
		kernel  uverbs.Kernel
		driver  provider.Driver
		device  string
		command string
		want    hwreport.Status
	}{
		"rxe":  {uverbstest.New("rxe0"), mlx5.Driver{}, "rxe0", "UVERBS_METHOD_CQ_CREATE", hwreport.Pass},
		"mlx5": {newKernel(inprocess.Config{}), rxe.Driver{}, "mlx5_0", "", hwreport.Unknown}, // its driver requires a request of its own
	} {
		target := &Target{Host: &verbs.Host{Drivers: []provider.Driver{tc.driver}, Kernel: tc.kernel}, Device: tc.device, Port: 1}
		r, _, a := readAnswers(t, target)
		if r.Status != tc.want || len(a.Library) > 1 {
			t.Errorf("Run(kernel-answers) on %s without a provider = %s: %s, want %s", what, r.Status, r.Reason, tc.want)
		}
		if tc.command != "" && driverBytes(a.Probes, tc.command) == "" {
			t.Errorf("driver's part of %s on %s is empty, want bytes", tc.command, what)
		}
	}
}
