// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"purerdma/cmd/internal/streamtest"
	"purerdma/cmd/internal/streamtest/transfertest"
	"purerdma/rsocket"
)

func TestTransfer(t *testing.T) {
	transfertest.Run(t, rsocket.Options{Maps: 1}, transfer,
		streamtest.Test{Size: 1, Count: 1, Iterations: 300},
		streamtest.Test{Size: 1000, Count: 3, Iterations: 10},
		streamtest.Test{Size: 300_000, Count: 2, Iterations: 3})
}
