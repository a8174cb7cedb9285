// SPDX-License-Identifier: Apache-2.0

package connectx

import "fmt"

// FrameRecord is a sent or received Ethernet frame.
type FrameRecord struct {
	Device string
	Sent   bool
	Frame  []byte
}

// DeviceName returns r.Device.
func (r *FrameRecord) DeviceName() string { return r.Device }

func (r *FrameRecord) String() string {
	what := "received"
	if r.Sent {
		what = "sent"
	}
	return fmt.Sprintf("%s frame %s, %d bytes: %x", r.Device, what, len(r.Frame), r.Frame[:min(64, len(r.Frame))])
}
