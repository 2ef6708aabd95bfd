* Source:     Pyomo MPS Writer
* Format:     Free MPS
*
NAME unknown
ROWS
 N  memory
 G  c_l_rows(1)_
 G  c_l_rows(2)_
 G  c_l_rows(3)_
 G  c_l_rows(4)_
 G  c_l_rows(5)_
 G  c_l_rows(6)_
 G  c_l_rows(7)_
 G  c_l_rows(8)_
 G  c_l_rows(9)_
 G  c_l_rows(10)_
 G  c_l_rows(11)_
 G  c_l_rows(12)_
 G  c_l_rows(13)_
 G  c_l_rows(14)_
 G  c_l_rows(15)_
 G  c_l_rows(16)_
 G  c_l_rows(17)_
 G  c_l_rows(18)_
 G  c_l_rows(19)_
 G  c_l_rows(20)_
 G  c_l_rows(21)_
 G  c_l_rows(22)_
 G  c_l_rows(23)_
 G  c_l_rows(24)_
 G  c_l_rows(25)_
 G  c_l_rows(26)_
 G  c_l_rows(27)_
 G  c_l_rows(28)_
 G  c_l_rows(29)_
 G  c_l_rows(30)_
 G  c_l_rows(31)_
 G  c_l_rows(32)_
 G  c_l_rows(33)_
 G  c_l_rows(34)_
 G  c_l_rows(35)_
 G  c_l_rows(36)_
 G  c_l_rows(37)_
 G  c_l_rows(38)_
 G  c_l_rows(39)_
 G  c_l_rows(40)_
COLUMNS
     p(0) memory -5
     p(0) c_l_rows(1)_ 1
     p(1) c_l_rows(1)_ -1
     p(1) c_l_rows(12)_ 1
     p(1) c_l_rows(13)_ 1
     p(1) c_l_rows(14)_ 1
     p(2) memory -14
     p(2) c_l_rows(2)_ 1
     p(2) c_l_rows(12)_ -1
     p(3) c_l_rows(2)_ -1
     p(3) c_l_rows(15)_ 1
     p(3) c_l_rows(16)_ 1
     p(3) c_l_rows(17)_ 1
     p(3) c_l_rows(38)_ -1
     p(4) memory -17
     p(4) c_l_rows(3)_ 1
     p(4) c_l_rows(13)_ -1
     p(5) c_l_rows(3)_ -1
     p(5) c_l_rows(18)_ 1
     p(5) c_l_rows(19)_ 1
     p(5) c_l_rows(20)_ 1
     p(5) c_l_rows(21)_ 1
     p(5) c_l_rows(22)_ 1
     p(5) c_l_rows(38)_ -1
     p(6) memory -7
     p(6) c_l_rows(4)_ 1
     p(6) c_l_rows(14)_ -1
     p(7) c_l_rows(4)_ -1
     p(7) c_l_rows(23)_ 1
     p(7) c_l_rows(24)_ 1
     p(7) c_l_rows(25)_ 1
     p(7) c_l_rows(38)_ -1
     p(8) memory -10
     p(8) c_l_rows(5)_ 1
     p(8) c_l_rows(15)_ -1
     p(8) c_l_rows(18)_ -1
     p(9) c_l_rows(5)_ -1
     p(9) c_l_rows(26)_ 1
     p(9) c_l_rows(27)_ 1
     p(9) c_l_rows(28)_ 1
     p(10) memory -10
     p(10) c_l_rows(6)_ 1
     p(10) c_l_rows(16)_ -1
     p(10) c_l_rows(23)_ -1
     p(10) c_l_rows(26)_ -1
     p(10) c_l_rows(35)_ -1
     p(11) c_l_rows(6)_ -1
     p(11) c_l_rows(29)_ 1
     p(11) c_l_rows(30)_ 1
     p(12) memory -19
     p(12) c_l_rows(7)_ 1
     p(12) c_l_rows(19)_ -1
     p(12) c_l_rows(24)_ -1
     p(13) c_l_rows(7)_ -1
     p(13) c_l_rows(31)_ 1
     p(13) c_l_rows(39)_ -1
     p(13) c_l_rows(40)_ -1
     p(14) memory -16
     p(14) c_l_rows(8)_ 1
     p(14) c_l_rows(20)_ -1
     p(14) c_l_rows(25)_ -1
     p(14) c_l_rows(27)_ -1
     p(14) c_l_rows(29)_ -1
     p(15) c_l_rows(8)_ -1
     p(15) c_l_rows(32)_ 1
     p(15) c_l_rows(40)_ -1
     p(16) memory -17
     p(16) c_l_rows(9)_ 1
     p(16) c_l_rows(21)_ -1
     p(16) c_l_rows(28)_ -1
     p(16) c_l_rows(30)_ -1
     p(16) c_l_rows(32)_ -1
     p(17) memory 36
     p(17) c_l_rows(9)_ -1
     p(17) c_l_rows(33)_ 1
     p(18) memory -13
     p(18) c_l_rows(10)_ 1
     p(18) c_l_rows(17)_ -1
     p(18) c_l_rows(22)_ -1
     p(18) c_l_rows(33)_ -1
     p(19) memory 31
     p(19) c_l_rows(10)_ -1
     p(19) c_l_rows(34)_ 1
     p(19) c_l_rows(39)_ -1
     p(20) memory -19
     p(20) c_l_rows(11)_ 1
     p(20) c_l_rows(31)_ -1
     p(20) c_l_rows(34)_ -1
     p(20) c_l_rows(36)_ -1
     p(20) c_l_rows(37)_ -1
     p(21) memory 32
     p(21) c_l_rows(11)_ -1
     p(22) memory 5
     p(22) c_l_rows(35)_ 1
     p(22) c_l_rows(38)_ 1
     p(24) memory 17
     p(24) c_l_rows(36)_ 1
     p(24) c_l_rows(39)_ 1
     p(25) memory 7
     p(25) c_l_rows(37)_ 1
     p(25) c_l_rows(40)_ 1
RHS
     RHS c_l_rows(1)_ 0
     RHS c_l_rows(2)_ 0
     RHS c_l_rows(3)_ 0
     RHS c_l_rows(4)_ 0
     RHS c_l_rows(5)_ 0
     RHS c_l_rows(6)_ 0
     RHS c_l_rows(7)_ 0
     RHS c_l_rows(8)_ 0
     RHS c_l_rows(9)_ 0
     RHS c_l_rows(10)_ 0
     RHS c_l_rows(11)_ 0
     RHS c_l_rows(12)_ 0
     RHS c_l_rows(13)_ 0
     RHS c_l_rows(14)_ 0
     RHS c_l_rows(15)_ 0
     RHS c_l_rows(16)_ 0
     RHS c_l_rows(17)_ 0
     RHS c_l_rows(18)_ 0
     RHS c_l_rows(19)_ 0
     RHS c_l_rows(20)_ 0
     RHS c_l_rows(21)_ 0
     RHS c_l_rows(22)_ 0
     RHS c_l_rows(23)_ 0
     RHS c_l_rows(24)_ 0
     RHS c_l_rows(25)_ 0
     RHS c_l_rows(26)_ 0
     RHS c_l_rows(27)_ 0
     RHS c_l_rows(28)_ 0
     RHS c_l_rows(29)_ 0
     RHS c_l_rows(30)_ 0
     RHS c_l_rows(31)_ 0
     RHS c_l_rows(32)_ 0
     RHS c_l_rows(33)_ 0
     RHS c_l_rows(34)_ 0
     RHS c_l_rows(35)_ 0
     RHS c_l_rows(36)_ 0
     RHS c_l_rows(37)_ 0
     RHS c_l_rows(38)_ -2
     RHS c_l_rows(39)_ -1
     RHS c_l_rows(40)_ -1
BOUNDS
 BV BOUND p(0)
 BV BOUND p(1)
 BV BOUND p(2)
 BV BOUND p(3)
 BV BOUND p(4)
 BV BOUND p(5)
 BV BOUND p(6)
 BV BOUND p(7)
 BV BOUND p(8)
 BV BOUND p(9)
 BV BOUND p(10)
 BV BOUND p(11)
 BV BOUND p(12)
 BV BOUND p(13)
 BV BOUND p(14)
 BV BOUND p(15)
 BV BOUND p(16)
 BV BOUND p(17)
 BV BOUND p(18)
 BV BOUND p(19)
 BV BOUND p(20)
 BV BOUND p(21)
 LO BOUND p(22) 0
 UP BOUND p(22) 1
 LO BOUND p(24) 0
 UP BOUND p(24) 1
 LO BOUND p(25) 0
 UP BOUND p(25) 1
ENDATA
