// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"fmt"
	"hash/crc32"

	"purerdma/test/connectx/prm"
)

// CommandError reports the rejection of a firmware command.
type CommandError struct {
	Status prm.Status
	// Syndrome distinguishes rejections with equal status. It is equal for equal reasons in all
	// runs, because it is the checksum of the text's format string.
	Syndrome uint32
	Text     string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s: %v, syndrome %#x", e.Text, e.Status, e.Syndrome)
}

// refuse returns a CommandError.
func refuse(status prm.Status, format string, args ...any) error {
	return &CommandError{Status: status, Syndrome: crc32.ChecksumIEEE([]byte(format)) & 0xffffff, Text: fmt.Sprintf(format, args...)}
}

// commandError converts an error into the driver's form.
func commandError(err error) *CommandError {
	var e *CommandError
	if !errors.As(err, &e) {
		e = &CommandError{Status: prm.StatusInternal, Text: err.Error()}
	}
	return e
}
