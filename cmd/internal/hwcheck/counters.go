// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ethtoolTime bounds a run of ethtool.
const ethtoolTime = 5 * time.Second

// portCounters returns the counters of the port, and with the prefix "ethtool." the counters of its network interface. It returns
// nil if there are none.
func (t *trial) portCounters() map[string]uint64 {
	all := map[string]uint64{}
	if c, err := t.dev.PortCounters(t.target.Port); err == nil {
		maps.Copy(all, c)
	}
	maps.Copy(all, t.interfaceCounters())
	if len(all) == 0 {
		return nil
	}
	return all
}

// interfaceCounters returns the counters that ethtool prints, or nil if there are none.
func (t *trial) interfaceCounters() map[string]uint64 {
	path, err := exec.LookPath("ethtool")
	if err != nil || t.target.Host.Kernel != nil {
		return nil
	}
	file, err := t.target.flagsFile()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.ctx, ethtoolTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-S", filepath.Base(filepath.Dir(file))).Output()
	if err != nil {
		return nil
	}
	return parseEthtool(string(out))
}

// ofQueue matches the counters of single queues and priorities, of which an interface has thousands.
var ofQueue = regexp.MustCompile(`^(rx|tx|ch|ptp_ch|xsk|queue)_?\d|\[\d+\]|_prio\d|_buffer_\d|_buf_\d`)

// parseEthtool parses the output of ethtool -S. It omits the counters of single queues.
func parseEthtool(out string) map[string]uint64 {
	counters := map[string]uint64{}
	for line := range strings.Lines(out) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if ok && err == nil && !ofQueue.MatchString(name) {
			counters["ethtool."+name] = n
		}
	}
	return counters
}

// changes returns the differences of the counters, or nil if there are none or if the counters could not be read.
func changes(before, after map[string]uint64) map[string]int64 {
	if before == nil {
		return nil
	}
	changed := map[string]int64{}
	for name, n := range after {
		if d := int64(n - before[name]); d != 0 {
			changed[strings.TrimSpace(name)] = d
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
}
