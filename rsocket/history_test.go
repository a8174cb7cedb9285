// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"testing"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
)

func TestHistory(t *testing.T) {
	onPairs(t, rsocket.Options{}, func(t *testing.T, c, s streamconntest.Conn) {
		streamconntest.History(t, c.(*rsocket.Conn), s.(*rsocket.Conn),
			`post request \d+ WRITE(_WITH_IMM)?, 100 bytes`, `complete requests? \d+( to \d+)? success`, `receive message \d+ \d+ bytes`)
	})
}
