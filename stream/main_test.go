// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"os"
	"testing"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) {
	if conns := os.Getenv(idleVariable); conns != "" {
		os.Exit(idleChild(conns))
	}
	vmtest.Main(m)
}
