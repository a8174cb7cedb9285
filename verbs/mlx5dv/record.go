// SPDX-License-Identifier: Apache-2.0

package mlx5dv

import "purerdma/provider/mlx5"

// RecordOptions are options of Device.Record.
type RecordOptions = mlx5.RecordOptions

// Recorder keeps the last operations of a device.
type Recorder = mlx5.Recorder

// Record starts recording of WQEs, doorbells and CQEs, for the QPs and CQs that the program creates
// later on the device. This includes QPs and CQs that package cm and other users of the Host create,
// while the Host has the device open. Only the first call has an effect, and the others return its
// Recorder. It may be called concurrently.
func (d *Device) Record(opt RecordOptions) *Recorder { return d.ctx.Record(opt) }
