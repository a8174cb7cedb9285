// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// Violation is something that a driver must not do.
type Violation struct {
	Device string
	Object string // as "QP 0x41" or "CREATE_CQ"
	Text   string
}

func (v Violation) Error() string {
	return fmt.Sprintf("%s: %s: %s", v.Device, v.Object, v.Text)
}

// strict says whether somebody wants to hear of violations.
func (d *Device) strict() bool { return d.cfg.Violation != nil }

// violation reports one.
func (d *Device) violation(object, format string, args ...any) {
	if d.strict() {
		d.cfg.Violation(Violation{Device: d.cfg.Name, Object: object, Text: fmt.Sprintf(format, args...)})
	}
}

// checkReserved reports bits that are set although the struct has no such field.
// table is one of package prm.
func (d *Device) checkReserved(object string, table any, b []byte) {
	if !d.strict() {
		return
	}
	if text := prm.Reserved(table, b); text != "" {
		d.violation(object, "%s", text)
	}
}
