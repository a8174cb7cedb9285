// SPDX-License-Identifier: Apache-2.0

package cdev

import "time"

// Interrupt ends the running Read of Conn, and later ones until Resume, with
// os.ErrDeadlineExceeded.
func (f *File) Interrupt() { f.f.SetReadDeadline(time.Unix(1, 0)) }

// Resume ends the effect of Interrupt.
func (f *File) Resume() { f.f.SetReadDeadline(time.Time{}) }
