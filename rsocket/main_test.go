// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"testing"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }
