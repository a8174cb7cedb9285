// SPDX-License-Identifier: Apache-2.0

package mlx5dv_test

import (
	"fmt"

	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// This example creates a CQ whose completions have timestamps of the device's wall clock.
func ExampleDevice_CreateCQ() {
	poll := func(dev *verbs.Device) error {
		d, err := mlx5dv.From(dev)
		if err != nil {
			return err // not a ConnectX: the error wraps errors.ErrUnsupported
		}
		cq, err := d.CreateCQ(verbs.CQConfig{Entries: 64}, &mlx5dv.CQOptions{RealTime: true})
		if err != nil {
			return err
		}
		defer cq.Close()
		completions := make([]mlx5dv.Completion, 16)
		n, err := cq.PollExtended(completions)
		for _, c := range completions[:n] {
			fmt.Println(c.ID, c.Timestamp) // nanoseconds
		}
		return err
	}
	_ = poll
}
