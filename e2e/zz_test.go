package e2e_test

import _ "waterwheel/reader"
