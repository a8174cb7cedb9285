// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// verbsInternal holds the functions that package verbs does not export.
var verbsInternal = bridge.Functions.(*bridge.Verbs[*verbs.Host, *verbs.Device, *verbs.QP, *verbs.CQ, *verbs.SRQ, *verbs.WC])
