// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

func TestHistory(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		for _, pair := range [][2]*msg.Conn{{c, s}, {s, c}} {
			if err := pair[0].Send(streamconntest.Deadline(t), 1, make([]byte, 100)); err != nil {
				t.Fatalf("Send() = %v", err)
			}
			m, err := pair[1].Receive(streamconntest.Deadline(t))
			if err != nil {
				t.Fatalf("Receive() = %v", err)
			}
			m.Free()
		}
		streamconntest.BrokenHistory(t, c, func() error {
			_, err := c.Receive(streamconntest.Deadline(t))
			return err
		}, `post request \d+ SEND, \d+ bytes`, `receive message \d+ \d+ bytes`)
	})
}
