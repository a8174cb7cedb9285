// SPDX-License-Identifier: Apache-2.0

package provider

import "fmt"

// InvalidCompletionError is the reason why a provider has moved a QP to the error state by itself. An entry of
// a completion queue named the QP and made no sense, or the completion of a request is missing. The
// request may never complete. The device is faulty, or differs from the provider's assumptions.
type InvalidCompletionError struct {
	QPNum  uint32 // the local QP
	Reason string // of the rejection of the entry
}

// Error names the QP and the reason.
func (e *InvalidCompletionError) Error() string {
	return fmt.Sprintf("QP %#x: invalid completion: %s", e.QPNum, e.Reason)
}

// Unwrap returns a *WCError with the status WCFatalErr, as if a work request had failed.
func (e *InvalidCompletionError) Unwrap() error {
	return &WCError{Status: WCFatalErr, QPNum: e.QPNum}
}
