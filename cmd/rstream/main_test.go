// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"purerdma/cmd/internal/streamtest"
	"purerdma/cmd/internal/streamtest/transfertest"
	"purerdma/rsocket"
)

func TestTransfer(t *testing.T) {
	transfertest.Run(t, rsocket.Options{SendBuffer: 200000, RecvBuffer: 200000}, transfer,
		streamtest.Test{Size: 64, Count: 1, Iterations: 300},
		streamtest.Test{Size: 500, Count: 1000, Iterations: 5},
		streamtest.Test{Size: 10000, Count: 100, Iterations: 10},
		streamtest.Test{Size: 1_000_000, Count: 5, Iterations: 2})
}
