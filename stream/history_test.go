// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"testing"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

func TestHistory(t *testing.T) {
	onPairs(t, ends{}, func(t *testing.T, c, s streamconntest.Conn) {
		streamconntest.History(t, c.(*stream.Conn), s.(*stream.Conn), `post request \d+ SEND, \d+ bytes`, `receive message \d+ \d+ bytes`)
	})
}
