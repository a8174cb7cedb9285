// SPDX-License-Identifier: Apache-2.0

package database

import (
	"runtime"
	"testing"

	"purerdma/internal/vmtest"
)

// init keeps other goroutines off the main thread, because some enter the network namespace of a server. /proc/net, which has
// the counters of vmtest.OverRDMA, shows the namespace of the main thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) { vmtest.Main(m) }
