// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// counting and verbsInternal hold the functions that package verbs does not export.
var counting = bridge.CountingFunctions.(*bridge.Counting[*verbs.Host, *verbs.QP, *verbs.PD])

var verbsInternal = bridge.Functions.(*bridge.Verbs[*verbs.Host, *verbs.Device, *verbs.QP, *verbs.CQ, *verbs.SRQ, *verbs.WC])
