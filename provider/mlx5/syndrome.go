// SPDX-License-Identifier: Apache-2.0

package mlx5

import "purerdma/provider"

// syndromes maps the syndromes of error CQEs to statuses (enum of MLX5_CQE_SYNDROME_... in
// mlx5dv.h, PRM, "CQE with error"). Other syndromes are a general error. WC.VendorErr holds the
// vendor's own code, which is more specific.
var syndromes = func() (t [256]provider.WCStatus) {
	for i := range t {
		t[i] = provider.WCGeneralErr
	}
	t[0x01] = provider.WCLocLenErr
	t[0x02] = provider.WCLocQPOpErr
	t[0x04] = provider.WCLocProtErr
	t[0x05] = provider.WCWRFlushErr
	t[0x06] = provider.WCMWBindErr
	t[0x10] = provider.WCBadRespErr
	t[0x11] = provider.WCLocAccessErr
	t[0x12] = provider.WCRemInvReqErr
	t[0x13] = provider.WCRemAccessErr
	t[0x14] = provider.WCRemOpErr
	t[0x15] = provider.WCRetryExcErr
	t[0x16] = provider.WCRNRRetryExcErr
	t[0x22] = provider.WCRemAbortErr
	return t
}()

// A page fault of the device on a receive of a shared receive queue. It is not an error of the
// request, which is posted again (MLX5_CQE_VENDOR_SYNDROME_ODP_PFAULT).
const (
	syndromeAborted = 0x22
	vendorPageFault = 0x93
)
